/* encoders.h - the answer to flags that train text encoders or a VAE. */
#ifndef COMMON_CLI_PEERS_ENCODERS_H
#define COMMON_CLI_PEERS_ENCODERS_H

#define ENCODERS                                                                                   \
    "vtrain holds no text encoder and no VAE, whose results vprep has stored, so that only the "   \
    "transformer is trained: OneTrainer and kohya's sd-scripts train text encoders, diffusers' "   \
    "train_autoencoderkl.py trains a VAE"

#endif
