/* summary.h - messages before the first step and after the last one, and report.html. */
#ifndef TRAIN_VTRAIN_SUMMARY_H
#define TRAIN_VTRAIN_SUMMARY_H

#include "train/steps/notes.h"

/* Reports whether micro-batches are captured and replayed, and the reason if not. */
void vtrain_report_graphs(const vtrain *t);
/* Reports dropped captions, zeroed conditions, memory and, with --profile, time. */
void vtrain_report_summary(const vtrain *t, const vtrain_counts *c);
/* After the last step: says where the result is, and what one does with it. */
void vtrain_report_result(const vtrain *t);
/* Writes report.html of the run; live: steps follow. Errors as of vtrain_report_write. */
int vtrain_write_report(const vtrain *t, bool live, vc_err *err);

#endif
