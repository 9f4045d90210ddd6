/* generator_fields.h - the words of a vocoder's config.json, by their places in gen_fields. */
#ifndef PRECOMPUTE_SOUND_GENERATOR_FIELDS_H
#define PRECOMPUTE_SOUND_GENERATOR_FIELDS_H

#define GEN_ACTS "leaky_relu|snakebeta|snake"
enum { GEN_LEAKY, GEN_SNAKEBETA, GEN_SNAKE };
#define GEN_LASTS "none|tanh|clamp"
enum { GEN_NONE, GEN_TANH, GEN_CLAMP };

#endif
