/* foreign_rows.h - rows of the tables of foreign flags, and texts that several tables have. For
 * foreign_*.c alone. */
#ifndef COMMON_CLI_FOREIGN_ROWS_H
#define COMMON_CLI_FOREIGN_ROWS_H

#include "common/cli/foreign.h"

/* words: the number of words after the flag, as vc_foreign.values */
#define NONE(words, names, reason) \
    { .name = names, .values = words, .say = "has no effect here: " reason }
#define ONLY(allowed, names, reason) \
    { .name = names, .values = 1, .say = "has no effect here: " reason, .only = allowed, \
      .why = reason }
/* meanings: the values that are a flag of ours, as vc_foreign.means */
#define MEANS(allowed, meanings, names, reason, others) \
    { .name = names, .values = 1, .say = "has no effect here: " reason, .only = allowed, \
      .why = others, .means = meanings }
#define REFUSED(words, names, remedy) \
    { .name = names, .values = words, .refused = true, .say = remedy }

#define LAUNCHER "ranks come from mpirun or srun"
#define LAUNCH "start N processes with mpirun -np N or srun instead"
#define LIST                                                                                       \
    "give vprep the list of clips, .json, .jsonl, .csv or .tsv, or the folder: --meta PATH; it "   \
    "reads captions beside the clips, metadata.jsonl or .csv, prompts.txt with videos.txt, "       \
    "captions.json, videos2caption.json, labels/ beside videos/, and WebDataset's tars"
#define OTHER                                                                                      \
    "nothing is trained this way here; the choices are --train_mode normal, i2v, inpaint, and of " \
    "Fun-Control models control and control_ref (column control_video or control_file_path), "     \
    "LoRA and full finetune"
#define PART                                                                                       \
    "give a diffusers folder with all parts, --model FOLDER, and the folder of another part by "   \
    "--vae, --text_encoder, --tokenizer, --transformer"
#define PACKED                                                                                     \
    "write --transformer_dtype fp8, int8 or nf4 (4 bits); encoders compute in bf16"

#endif
