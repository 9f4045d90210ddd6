/* names.c - the names of the modules and tensors of each class; see parts.h */
#include "formats/models/parts.h"

/* ---- CogVideoX ---- */

const char *const vf_names_cogvideox[] = {
    "patch_embed.{pos_embedding,proj,text_proj}", "{time,ofs}_embedding.linear_{1,2}",
    "norm_final", "norm_out.{linear,norm}", "proj_out",
    "transformer_blocks.#.norm{1,2}.{linear,norm}",
    "transformer_blocks.#.attn1.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}",
    "transformer_blocks.#.ff.net.{0.proj,2}", NULL
};

/* ---- HunyuanVideo ---- */

const char *const vf_names_hunyuan[] = {
    "x_embedder.proj", "context_embedder.proj_in",
    "context_embedder.time_text_embed.{timestep,text}_embedder.linear_{1,2}",
    "time_text_embed.{timestep,text,guidance}_embedder.linear_{1,2}", "norm_out.linear", "proj_out",
    "context_embedder.token_refiner.refiner_blocks.#."
    "{norm1,norm2,attn.to_q,attn.to_k,attn.to_v,attn.to_out.0,ff.net.0.proj,ff.net.2,"
    "norm_out.linear}",
    "transformer_blocks.#.{norm1,norm1_context}.linear",
    "transformer_blocks.#.attn.{norm_q,norm_k,norm_added_q,norm_added_k,to_q,to_k,to_v,to_out.0,"
    "add_q_proj,add_k_proj,add_v_proj,to_add_out}",
    "transformer_blocks.#.{ff,ff_context}.net.{0.proj,2}",
    "single_transformer_blocks.#.{norm.linear,attn.norm_q,attn.norm_k,attn.to_q,attn.to_k,"
    "attn.to_v,proj_mlp,proj_out}", NULL
};
const char *const vf_names_hunyuan_first[] = {
    "img_in.proj", "{time,guidance}_in.mlp.{0,2}", "vector_in.{in,out}_layer",
    "txt_in.input_embedder", "txt_in.t_embedder.mlp.{0,2}", "txt_in.c_embedder.linear_{1,2}",
    "txt_in.individual_token_refiner.blocks.#.{norm1,norm2,self_attn_qkv,self_attn_proj,mlp.fc1,"
    "mlp.fc2,adaLN_modulation.1}",
    "final_layer.{linear,adaLN_modulation.1}",
    "double_blocks.#.{img,txt}_{mod.linear,attn_qkv,attn_q_norm,attn_k_norm,attn_proj,mlp.fc1,"
    "mlp.fc2}",
    "single_blocks.#.{linear1,linear2,q_norm,k_norm,modulation.linear}", NULL
};

/* ---- HunyuanVideo 1.5 ---- */

const char *const vf_names_hunyuan15[] = {
    "x_embedder.proj", "context_embedder.proj_in",
    "context_embedder.time_text_embed.{timestep,text}_embedder.linear_{1,2}",
    "context_embedder.token_refiner.refiner_blocks.#."
    "{norm1,norm2,attn.to_q,attn.to_k,attn.to_v,attn.to_out.0,ff.net.0.proj,ff.net.2,"
    "norm_out.linear}",
    "context_embedder_2.{norm,linear_1,linear_2,linear_3}",
    "image_embedder.{norm_in,linear_1,linear_2,norm_out}",
    "time_embed.{timestep_embedder,timestep_embedder_r}.linear_{1,2}", "cond_type_embed",
    "norm_out.linear", "proj_out",
    "transformer_blocks.#.{norm1,norm1_context}.linear",
    "transformer_blocks.#.attn.{norm_q,norm_k,norm_added_q,norm_added_k,to_q,to_k,to_v,to_out.0,"
    "add_q_proj,add_k_proj,add_v_proj,to_add_out}",
    "transformer_blocks.#.{ff,ff_context}.net.{0.proj,2}", NULL
};
const char *const vf_names_hunyuan15_first[] = {
    "img_in.proj", "{time_in,time_r_in}.mlp.{0,2}", "txt_in.input_embedder",
    "txt_in.t_embedder.mlp.{0,2}", "txt_in.c_embedder.linear_{1,2}",
    "byt5_in.{layernorm,fc1,fc2,fc3}", "vision_in.proj.{0,1,3,4}", "cond_type_embedding",
    "txt_in.individual_token_refiner.blocks.#.{norm1,norm2,self_attn_qkv,self_attn_proj,mlp.fc1,"
    "mlp.fc2,adaLN_modulation.1}",
    "final_layer.{linear,adaLN_modulation.1}",
    "double_blocks.#.{img,txt}_{mod.linear,attn_q,attn_k,attn_v,attn_qkv,attn_q_norm,attn_k_norm,"
    "attn_proj,mlp.fc1,mlp.fc2}", NULL
};

/* ---- LTX-Video ---- */

const char *const vf_names_ltx[] = {
    "proj_in", "proj_out", "scale_shift_table", "time_embed.linear",
    "time_embed.emb.timestep_embedder.linear_{1,2}", "caption_projection.linear_{1,2}",
    "transformer_blocks.#.scale_shift_table",
    "transformer_blocks.#.attn{1,2}.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}",
    "transformer_blocks.#.ff.net.{0.proj,2}", NULL
};

/* ---- Wan ---- */

#define WAN_NAMES \
    "patch_embedding", "proj_out", "scale_shift_table", \
    "condition_embedder.{time,text}_embedder.linear_{1,2}", "condition_embedder.time_proj", \
    "blocks.#.{scale_shift_table,norm2,ffn.net.0.proj,ffn.net.2}", \
    "blocks.#.attn{1,2}.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}"
const char *const vf_names_wan[] = {
    WAN_NAMES, "condition_embedder.image_embedder.{pos_embed,norm1,norm2,ff.net.0.proj,ff.net.2}",
    "blocks.#.attn2.{add_k_proj,add_v_proj,norm_added_k,norm_added_q}", NULL
};
const char *const vf_names_skyreels2[] = {
    WAN_NAMES, "condition_embedder.image_embedder.{pos_embed,norm1,norm2,ff.net.0.proj,ff.net.2}",
    "blocks.#.attn2.{add_k_proj,add_v_proj,norm_added_k,norm_added_q}", "fps_embedding",
    "fps_projection.net.{0.proj,2}", NULL
};
#define WAN_FIRST_NAMES \
    "patch_embedding", "{time,text}_embedding.{0,2}", "time_projection.1", \
    "head.{head,modulation}", "blocks.#.{modulation,norm3,ffn.0,ffn.2}", \
    "blocks.#.{self,cross}_attn.{q,k,v,o,norm_q,norm_k}"
const char *const vf_names_wan_first[] = {
    WAN_FIRST_NAMES, "img_emb.{proj.0,proj.1,proj.3,proj.4,emb_pos}",
    "blocks.#.cross_attn.{k_img,v_img,norm_k_img}", NULL
};
const char *const vf_names_skyreels2_first[] = {
    WAN_FIRST_NAMES, "img_emb.{proj.0,proj.1,proj.3,proj.4,emb_pos}",
    "blocks.#.cross_attn.{k_img,v_img,norm_k_img}", "fps_embedding", "fps_projection.{0,2}", NULL
};
const char *const vf_names_wan_vace[] = {
    WAN_NAMES, "vace_patch_embedding",
    "vace_blocks.#.{scale_shift_table,norm2,ffn.net.0.proj,ffn.net.2,proj_in,proj_out}",
    "vace_blocks.#.attn{1,2}.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}", NULL
};
const char *const vf_names_wan_vace_first[] = {
    WAN_FIRST_NAMES, "vace_patch_embedding",
    "vace_blocks.#.{modulation,norm3,ffn.0,ffn.2,before_proj,after_proj}",
    "vace_blocks.#.{self,cross}_attn.{q,k,v,o,norm_q,norm_k}", NULL
};

/* ---- Qwen-Image ---- */

const char *const vf_names_qwen[] = {
    "time_text_embed.timestep_embedder.linear_{1,2}", "txt_norm", "img_in", "txt_in",
    "norm_out.linear", "proj_out",
    "transformer_blocks.#.{img,txt}_{mod.1,mlp.net.0.proj,mlp.net.2}",
    "transformer_blocks.#.attn.{to_q,to_k,to_v,to_out.0,norm_q,norm_k,add_q_proj,add_k_proj,"
    "add_v_proj,to_add_out,norm_added_q,norm_added_k}",
    "__index_timestep_zero__", NULL              /* ComfyUI's mark of 2511, without values */
};

/* ---- FLUX.1 ---- */

const char *const vf_names_flux[] = {
    "time_text_embed.{timestep,text,guidance}_embedder.linear_{1,2}", "context_embedder",
    "x_embedder", "norm_out.linear", "proj_out",
    "transformer_blocks.#.{norm1,norm1_context}.linear",
    "transformer_blocks.#.attn.{norm_q,norm_k,norm_added_q,norm_added_k,to_q,to_k,to_v,to_out.0,"
    "add_q_proj,add_k_proj,add_v_proj,to_add_out}",
    "transformer_blocks.#.{ff,ff_context}.net.{0.proj,2}",
    "single_transformer_blocks.#.{norm.linear,attn.norm_q,attn.norm_k,attn.to_q,attn.to_k,"
    "attn.to_v,proj_mlp,proj_out}", NULL
};
const char *const vf_names_flux_first[] = {
    "img_in", "txt_in", "{time,guidance,vector}_in.{in,out}_layer",
    "final_layer.{linear,adaLN_modulation.1}",
    "double_blocks.#.{img,txt}_{attn.qkv,attn.proj,mod.lin,mlp.0,mlp.2}",
    "double_blocks.#.{img,txt}_attn.norm.{query,key}_norm.scale",
    "single_blocks.#.{linear1,linear2,modulation.lin}",
    "single_blocks.#.norm.{query,key}_norm.scale", NULL
};

/* ---- Chroma ---- */

const char *const vf_names_chroma[] = {
    "distilled_guidance_layer.{in,out}_proj", "distilled_guidance_layer.layers.#.linear_{1,2}",
    "distilled_guidance_layer.norms.#",
    "context_embedder", "x_embedder", "proj_out",
    "transformer_blocks.#.attn.{norm_q,norm_k,norm_added_q,norm_added_k,to_q,to_k,to_v,to_out.0,"
    "add_q_proj,add_k_proj,add_v_proj,to_add_out}",
    "transformer_blocks.#.{ff,ff_context}.net.{0.proj,2}",
    "single_transformer_blocks.#.{attn.norm_q,attn.norm_k,attn.to_q,attn.to_k,attn.to_v,proj_mlp,"
    "proj_out}", NULL
};
const char *const vf_names_chroma_first[] = {
    "distilled_guidance_layer.{in,out}_proj", "distilled_guidance_layer.layers.#.{in,out}_layer",
    "distilled_guidance_layer.norms.#.scale",
    "img_in", "txt_in", "final_layer.linear",
    "double_blocks.#.{img,txt}_{attn.qkv,attn.proj,mlp.0,mlp.2}",
    "double_blocks.#.{img,txt}_attn.norm.{query,key}_norm.scale",
    "single_blocks.#.{linear1,linear2,norm.query_norm.scale,norm.key_norm.scale}", NULL
};

/* ---- FLUX.2 ---- */

const char *const vf_names_flux2[] = {
    "time_guidance_embed.{timestep,guidance}_embedder.linear_{1,2}", "context_embedder",
    "x_embedder", "norm_out.linear", "proj_out", "double_stream_modulation_{img,txt}.linear",
    "single_stream_modulation.linear",
    "transformer_blocks.#.attn.{norm_q,norm_k,norm_added_q,norm_added_k,to_q,to_k,to_v,to_out.0,"
    "add_q_proj,add_k_proj,add_v_proj,to_add_out}",
    "transformer_blocks.#.{ff,ff_context}.linear_{in,out}",
    "single_transformer_blocks.#.attn.{norm_q,norm_k,to_qkv_mlp_proj,to_out}", NULL
};
const char *const vf_names_flux2_first[] = {
    "img_in", "txt_in", "{time,guidance}_in.{in,out}_layer",
    "final_layer.{linear,adaLN_modulation.1}", "double_stream_modulation_{img,txt}.lin",
    "single_stream_modulation.lin",
    "double_blocks.#.{img,txt}_{attn.qkv,attn.proj,mlp.0,mlp.2}",
    "double_blocks.#.{img,txt}_attn.norm.{query,key}_norm.scale",
    "single_blocks.#.{linear1,linear2}", "single_blocks.#.norm.{query,key}_norm.scale", NULL
};

/* ---- Z-Image ---- */

const char *const vf_names_zimage[] = {
    "all_x_embedder.2-1", "all_final_layer.2-1.{linear,adaLN_modulation.1}", "t_embedder.mlp.{0,2}",
    "cap_embedder.{0,1}", "x_pad_token", "cap_pad_token",
    "{layers,noise_refiner}.#.adaLN_modulation.0",
    "{layers,noise_refiner,context_refiner}.#.{attention,ffn}_norm{1,2}",
    "{layers,noise_refiner,context_refiner}.#.attention.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}",
    "{layers,noise_refiner,context_refiner}.#.feed_forward.{w1,w2,w3}", NULL
};

/* ---- Krea 2 ---- */

const char *const vf_names_krea2[] = {
    "img_in", "time_embed.linear_{1,2}", "time_mod_proj", "txt_in.{norm,linear_1,linear_2}",
    "text_fusion.projector", "final_layer.{scale_shift_table,norm,linear}",
    "transformer_blocks.#.{scale_shift_table,norm1,norm2,ff.gate,ff.up,ff.down}",
    "transformer_blocks.#.attn.{to_q,to_k,to_v,to_gate,to_out.0,norm_q,norm_k}",
    "text_fusion.{layerwise,refiner}_blocks.#.{norm1,norm2,ff.gate,ff.up,ff.down}",
    "text_fusion.{layerwise,refiner}_blocks.#."
    "attn.{to_q,to_k,to_v,to_gate,to_out.0,norm_q,norm_k}", NULL
};

/* ---- ERNIE-Image ---- */

const char *const vf_names_ernie[] = {
    "x_embedder.proj", "text_proj", "time_embedding.linear_{1,2}", "adaLN_modulation.1",
    "final_norm.linear", "final_linear", "layers.#.adaLN_{sa,mlp}_ln",
    "layers.#.self_attention.{to_q,to_k,to_v,to_out.0,norm_q,norm_k}",
    "layers.#.mlp.{gate_proj,up_proj,linear_fc2}", NULL
};

/* ---- Kandinsky 5 ---- */

const char *const vf_names_kandinsky5[] = {
    "time_embeddings.{in,out}_layer", "{text,pooled_text}_embeddings.{in_layer,norm}",
    "visual_embeddings.in_layer", "out_layer.{modulation.out_layer,out_layer}",
    "text_transformer_blocks.#.text_modulation.out_layer",
    "visual_transformer_blocks.#.visual_modulation.out_layer",
    "{text,visual}_transformer_blocks.#.feed_forward.{in,out}_layer",
    "{text,visual}_transformer_blocks.#.self_attention."
    "{to_query,to_key,to_value,query_norm,key_norm,out_layer}",
    "visual_transformer_blocks.#.cross_attention."
    "{to_query,to_key,to_value,query_norm,key_norm,out_layer}", NULL
};

/* ---- Cosmos-Predict2 ---- */

const char *const vf_names_cosmos2[] = {
    "patch_embed.proj", "time_embed.t_embedder.linear_{1,2}", "time_embed.norm",
    "norm_out.linear_{1,2}", "proj_out", "transformer_blocks.#.norm{1,2,3}.linear_{1,2}",
    "transformer_blocks.#.attn{1,2}.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}",
    "transformer_blocks.#.ff.net.{0.proj,2}", NULL
};

/* ---- Ideogram 4 ---- */

const char *const vf_names_ideogram4[] = {
    "input_proj", "llm_cond_{norm,proj}", "t_embedding.mlp_{in,out}", "adaln_proj",
    "embed_image_indicator", "final_layer.{linear,adaln_modulation}",
    "layers.#.adaln_modulation", "layers.#.{attention,ffn}_norm{1,2}",
    "layers.#.attention.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}",
    "layers.#.feed_forward.{w1,w2,w3}", NULL
};

/* ---- Stable Diffusion 3 ---- */

const char *const vf_names_sd3[] = {
    "pos_embed.{pos_embed,proj}", "time_text_embed.{timestep,text}_embedder.linear_{1,2}",
    "context_embedder", "norm_out.linear", "proj_out",
    "transformer_blocks.#.{norm1,norm1_context}.linear",
    "transformer_blocks.#.attn.{norm_q,norm_k,norm_added_q,norm_added_k,to_q,to_k,to_v,to_out.0,"
    "add_q_proj,add_k_proj,add_v_proj,to_add_out}",
    "transformer_blocks.#.attn2.{norm_q,norm_k,to_q,to_k,to_v,to_out.0}",
    "transformer_blocks.#.{ff,ff_context}.net.{0.proj,2}", NULL
};
const char *const vf_names_sd3_first[] = {
    "pos_embed", "x_embedder.proj", "{t,y}_embedder.mlp.{0,2}", "context_embedder",
    "final_layer.{linear,adaLN_modulation.1}",
    "joint_blocks.#.{x,context}_block.{attn.qkv,attn.proj,attn.ln_q,attn.ln_k,mlp.fc1,mlp.fc2,"
    "adaLN_modulation.1}",
    "joint_blocks.#.x_block.attn2.{qkv,proj,ln_q,ln_k}", NULL
};
