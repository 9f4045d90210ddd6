/* tar.h - what the export and the import of WebDataset's tar files share. See tar.c */
#ifndef FORMATS_PEERS_CACHES_TAR_H
#define FORMATS_PEERS_CACHES_TAR_H

#include "formats/peers/exchange.h"

#define TAR_NAME "shard-%06d.tar"

/* Exports the whole dataset; a tar ends behind the sample that makes it --shard_size bytes. */
int exchange_tar_write(exchange *x, vc_err *err);

#endif
