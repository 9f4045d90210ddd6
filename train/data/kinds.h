/* kinds.h - the kind of a condition's picture (edges, depths, ..), which a ControlNet-Union of
 * FLUX.1 reads.
 *
 * vprep --extra_inputs "controlnet_image,controlnet_processor_id" keeps this column in `extra` of
 * the records, as does controlnet_mode; a validation prompt has it among its fields. It is a number
 * or a name (common/cli/kinds.h). Where a record has none the kind is --controlnet_mode. */
#ifndef TRAIN_DATA_KINDS_H
#define TRAIN_DATA_KINDS_H

#include <stdint.h>

#include "formats/json/json.h"

/* Reads the kind of a sample's or a prompt's record, of `kinds`; fallback: where it has none.
 * VC_EFORMAT: the value is none of the kinds. VC_EMISMATCH: the record has none, and fallback is
 * VC_NO_KIND. */
int vtrain_kind_read(int32_t *kind, const cJSON *record, int kinds, int32_t fallback, vc_err *err);

#endif
