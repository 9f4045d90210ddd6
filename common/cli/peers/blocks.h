/* blocks.h - a family's linears, as a --target_name, for --like and for other trainers' files. */
#ifndef COMMON_CLI_PEERS_BLOCKS_H
#define COMMON_CLI_PEERS_BLOCKS_H

/* The linears of Stable Diffusion 3's blocks, with those of the modulation. */
#define VC_SD3_BLOCKS \
    "transformer_blocks\\.[0-9]+\\.(attn2?\\.(to_[qkv]|to_out\\.0|add_[qkv]_proj|to_add_out)|" \
    "ff(_context)?\\.net\\.(0\\.proj|2)|norm1(_context)?\\.linear)"

#endif
