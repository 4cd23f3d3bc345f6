/* SPDX-License-Identifier: Apache-2.0 */
/* job.c: what launchers say of the job in the environment. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>

static const struct launcher {
    const char *name, *rank, *ranks;
} launchers[] = {
    {"bp", "BP_RANK", "BP_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS"},
};

static enum bp_status read_number(const char *name, uint32_t *out_number)
{
    const char *text = bp_env(name);
    char *end;
    unsigned long n;

    if (!text)
        return bp_error(BP_ERR_INVALID, "bp_job_find: %s is not set, but what belongs to it is",
                        name);
    errno = 0;
    n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n > 1 << 20)
        return bp_error(BP_ERR_INVALID, "bp_job_find: %s=%.40s: expected a number", name, text);
    *out_number = (uint32_t)n;
    return BP_OK;
}

enum bp_status bp_job_find(struct bp_job *out)
{
    struct bp_job job = {.size = sizeof job};
    const char *store = bp_env("BP_STORE");
    const struct launcher *end = launchers + sizeof launchers / sizeof *launchers, *l;

    for (l = launchers; l < end && !bp_env(l->rank) && !bp_env(l->ranks);) l++;
    if (l == end)
        return bp_error(BP_ERR_NOT_FOUND,
                        "bp_job_find: neither BP_RANK nor the variables of Open MPI or Slurm are "
                        "set: start the program with bp launch -n N PROGRAM");
    TRY(read_number(l->rank, &job.rank));
    TRY(read_number(l->ranks, &job.ranks));
    if (job.rank >= job.ranks)
        return bp_error(BP_ERR_INVALID, "bp_job_find: %s is %u, but %s is %u: ranks count from 0",
                        l->rank, job.rank, l->ranks, job.ranks);
    job.launcher = l->name;
    job.store = store ? store : "";
    return bp_answer_for("bp_job_find", out, &job, sizeof job);
}
