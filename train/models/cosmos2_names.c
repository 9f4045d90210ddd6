/* cosmos2_names.c - the first authors' names of Cosmos-Predict2's modules, which ComfyUI and
 * diffusion-pipe have too; see cosmos2.h */
#include "train/models/cosmos2.h"

#define THEIRS "blocks.#."
#define OURS "transformer_blocks.#."
#define MODULE(theirs_, ours_) { theirs_, .ours = { ours_ } }
#define NORM(theirs_, ours_) MODULE(theirs_ ".weight", ours_ ".weight")
#define NARROW(theirs_, ours_) \
    MODULE(theirs_ ".1", ours_ ".linear_1"), MODULE(theirs_ ".2", ours_ ".linear_2")
#define ATTENTION(theirs_, ours_) \
    MODULE(THEIRS theirs_ ".q_proj", OURS ours_ ".to_q"), \
    MODULE(THEIRS theirs_ ".k_proj", OURS ours_ ".to_k"), \
    MODULE(THEIRS theirs_ ".v_proj", OURS ours_ ".to_v"), \
    MODULE(THEIRS theirs_ ".output_proj", OURS ours_ ".to_out.0"), \
    NORM(THEIRS theirs_ ".q_norm", OURS ours_ ".norm_q"), \
    NORM(THEIRS theirs_ ".k_norm", OURS ours_ ".norm_k")

const vtrain_rename cosmos2_names[] = {
    ATTENTION("self_attn", "attn1"),
    ATTENTION("cross_attn", "attn2"),
    MODULE(THEIRS "mlp.layer1", OURS "ff.net.0.proj"),
    MODULE(THEIRS "mlp.layer2", OURS "ff.net.2"),
    NARROW(THEIRS "adaln_modulation_self_attn", OURS "norm1"),
    NARROW(THEIRS "adaln_modulation_cross_attn", OURS "norm2"),
    NARROW(THEIRS "adaln_modulation_mlp", OURS "norm3"),
    MODULE("x_embedder.proj.1", "patch_embed.proj"),
    MODULE("t_embedder.1.linear_1", "time_embed.t_embedder.linear_1"),
    MODULE("t_embedder.1.linear_2", "time_embed.t_embedder.linear_2"),
    NORM("t_embedding_norm", "time_embed.norm"),
    NARROW("final_layer.adaln_modulation", "norm_out"),
    MODULE("final_layer.linear", "proj_out"),
    { 0 }
};
