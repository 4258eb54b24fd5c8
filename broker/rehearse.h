#ifndef BROKER_REHEARSE_H
#define BROKER_REHEARSE_H

#include "audit/digest.h"
#include "broker/job.h"

/*
 * For a broker that waits in stock: do once, with a skill, a call and a row of
 * our own, what a start and a first call will do. Nothing comes of it but that
 * code, stack and heap are mapped when somebody waits for them: the first touch
 * of a page costs about as much as ten system calls on a virtual machine. Of the
 * job, what is the same for all is settled. Errors are nobody's business here.
 */
void	broker_rehearse(const struct broker_job *any, struct digest *);

#endif
