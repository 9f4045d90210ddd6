/* watch.h - which ranks of the run are alive. Internal to common/comm.
 *
 * A thread of each rank sends a beat to those 1, 2, 4, 8, ... ranks further on, several times
 * within the time after which these would warn, and counts how long each rank that it hears in this
 * way has been silent. A beat says where the rank is, so that a message can name the last step of a
 * rank that does not answer. Silence is counted in time in which this rank ran itself: a job that
 * is suspended as a whole loses no rank.
 *
 * A rank that hears no beat for as long as a warning takes reports this to all, with the last beat
 * that it heard. Then and for a while after the last report there is an alert: the beats of all
 * ranks go to all, so that each misses every other by itself, also where all ranks that hear a
 * silent one are silent too.
 *
 * A rank that is silent for longer than the patience is lost: the thread notes this for good, beats
 * pass the note on, and every rank's calls that wait return VC_ELOST. */
#ifndef COMMON_COMM_WATCH_H
#define COMMON_COMM_WATCH_H

#include "common/comm/parts.h"

/* Starts the thread. world is the comm of all ranks, open and borrowed. *out is NULL on failure. */
int vc_watch_open(vc_watch **out, vc_comm *world, vc_err *err);
/* Ends the thread; NULL is fine. */
void vc_watch_close(vc_watch *w);
void vc_watch_set(vc_watch *w, const vc_comm_watch_opts *o);
/* Sets the text about this rank that its beats carry. */
void vc_watch_note(vc_watch *w, const char *text);

/* A wait of this rank begins and ends; without these calls the others take it for one that
 * computes. */
void vc_watch_wait(vc_watch *w);
void vc_watch_waited(vc_watch *w);

/* True once a rank is lost. Never blocks. */
bool vc_watch_lost(const vc_watch *w);
/* VC_ELOST with a text that names the lost ranks; 0 if there are none. */
int vc_watch_fail(vc_watch *w, vc_err *err);
/* The lowest rank that is not lost. */
int vc_watch_first(vc_watch *w);
/* After a loss, returns when this rank has to end the run: it is the first, and the other living
 * ranks have nothing left to do. On other ranks the function does not return, unless the first is
 * lost too. */
void vc_watch_leave(vc_watch *w);

#endif
