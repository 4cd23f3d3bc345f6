/* SPDX-License-Identifier: Apache-2.0 */
/* test_blaslt.c: how rows of cuBLASLt choose an algorithm, on the simulator's stand-in for it.
 *
 *   test_blaslt PLUGIN DRIVER */
#include "kit.h"
#include "libraries_work.h"
#include <stdlib.h>
#include <string.h>

/* The first plan of a shape asks twice. A third question would fail. */
static void asks_once(const void *arg)
{
    struct world w;
    struct recipe other = recipes[0];
    uint64_t workspace;

    (void)arg;
    setenv("BP_SIM_FAIL", "cublasLtMatmulAlgoGetHeuristic:3:999", 1);
    begin(&w);
    for (int i = 0; i < 3; i++) {
        expect(plan_recipe(&w, &recipes[0], &workspace) == BP_OK, "plan %d: %s", i, heard);
        expect(workspace == 4096, "plan %d: workspace %d", i, (int)workspace);
    }
    expect(run_recipe(&w, &recipes[0]) == WORKS, "%s", heard);
    other.attrs = &turned;
    other.shape[1][0] = 2;
    other.shape[1][1] = 3;
    expect(plan_recipe(&w, &other, &workspace) == BP_ERR_UNSUPPORTED, "another shape asks nothing");
    expect(plan_recipe(&w, &other, &workspace) == BP_OK, "a failure is kept: %s", heard);
    end(&w);
}

/* The quick one, which is named later, wants 2 KiB. */
static void fastest_is_taken(const void *arg)
{
    static const char *const setting[] = {"0", "1"};
    static const int recipe[] = {0, 2, 3, 4, 10};
    struct world w;
    uint64_t workspace;

    (void)arg;
    setenv("BP_SIM_SLOW", "4000", 1);
    for (int i = 0; i < 2; i++) {
        setenv("BP_SIM_TRIAL", setting[i], 1);
        begin(&w);
        for (size_t k = 0; k < sizeof recipe / sizeof *recipe; k++) {
            const struct recipe *r = &recipes[recipe[k]];
            expect(plan_recipe(&w, r, &workspace) == BP_OK, "%s: %s", r->row, heard);
            expect(workspace == (i ? 2048 : 4096), "BP_SIM_TRIAL=%d: %s takes that of %d bytes", i,
                   r->row, (int)workspace);
            expect(run_recipe(&w, r) == WORKS, "%s: %s", r->row, heard);
        }
        end(&w);
    }
    expect(!*heard, "it said: %s", heard);
}

/* What fails in a trial is no failure of the plan: what the heuristic likes best is taken where
 * there is no trial, and the other where the first fails in it. */
static void trial_fails(const void *arg)
{
    static const struct {
        const char *failure;
        uint64_t workspace;
    } cases[] = {{"memory_allocate:5:2", 4096}, {"stream_create:3:999", 4096},
                 {"cublasLtMatmul:1:14", 2048}, {"stream_synchronize:1:999", 2048}};
    uint64_t workspace;
    struct world w;

    (void)arg;
    setenv("BP_SIM_TRIAL", "1", 1);
    setenv("BP_SIM_SLOW", "4000", 1);
    for (int i = 0; i < 4; i++) {
        setenv("BP_SIM_FAIL", cases[i].failure, 1);
        begin(&w);
        expect(plan_recipe(&w, &recipes[0], &workspace) == BP_OK, "%s: %s", cases[i].failure,
               heard);
        expect(workspace == cases[i].workspace, "%s: workspace %d", cases[i].failure,
               (int)workspace);
        end(&w);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    plugin_path = argv[1];
    driver_path = argv[2];
    run_case("a shape is asked for once", asks_once, NULL);
    run_case("the fastest algorithm, on demand", fastest_is_taken, NULL);
    run_case("trials that fail", trial_fails, NULL);
    return cases_end();
}
