/* SPDX-License-Identifier: Apache-2.0 */
/* report_roof.c: the roofline of `bp report`: the operations for each byte of a row of the
 * benchmark bound its speed by the memory or by the arithmetic of the device. Both bounds are
 * measured: the copy within the device, and the fastest row. */
#include "device_report.h"

#include <math.h>
#include <report/escape.h>
#include <stdlib.h>
#include <string.h>

struct roof_row {
    const char *name;
    double intensity, flops, bound, bytes; /* operations for each byte; in a second: operations, the
                                              most of them, bytes */
};
struct roof {
    double bytes, flops; /* in a second */
    struct roof_row *row;
    size_t n;
};

/* The widths fit the screen of a phone. */
enum {
    ROOF_WIDTH = 480,
    ROOF_HEIGHT = 260,
    ROOF_LEFT = 52,
    ROOF_BOTTOM = 226,
    ROOF_RIGHT = 456,
    ROOF_TOP = 12
};

static void roof_take(struct roof *f, const cJSON *row)
{
    double operations = bp_json_number(row, "operations"), bytes = bp_json_number(row, "bytes"),
           seconds = bp_json_number(row, "seconds");

    if (!(operations >= 0) || !(bytes > 0) || !(seconds > 0) || !isfinite(operations / seconds) ||
        !isfinite(bytes / seconds) || device_is_beside(row))
        return;
    if (operations == 0) { /* a copy */
        f->bytes = fmax(f->bytes, bytes / seconds);
        return;
    }
    f->flops = fmax(f->flops, operations / seconds);
    f->row[f->n++] = (struct roof_row){.name = bp_json_get(row, "name"),
                                       .intensity = operations / bytes,
                                       .flops = operations / seconds,
                                       .bytes = bytes / seconds};
}

static void roof_init(struct roof *f, const cJSON *bench)
{
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(bench, "results"), *row;

    *f = (struct roof){.row = calloc((size_t)cJSON_GetArraySize(results) + 1, sizeof *f->row)};
    if (!f->row) abort();
    cJSON_ArrayForEach(row, results) roof_take(f, row);
    for (size_t i = 0; i < f->n; i++)
        f->row[i].bound = fmin(f->flops, f->bytes * f->row[i].intensity);
}

/* ---- the drawing: both axes are logarithmic ---- */

struct roof_axes {
    double x0, x1, y0, y1; /* powers of ten */
};

static double roof_x(const struct roof_axes *a, double intensity)
{
    return ROOF_LEFT + (log10(intensity) - a->x0) / (a->x1 - a->x0) * (ROOF_RIGHT - ROOF_LEFT);
}

static double roof_y(const struct roof_axes *a, double flops)
{
    return ROOF_BOTTOM - (log10(flops) - a->y0) / (a->y1 - a->y0) * (ROOF_BOTTOM - ROOF_TOP);
}

static struct roof_axes roof_axes(const struct roof *f)
{
    double ridge = f->flops / f->bytes, least = ridge, most = ridge, low = f->flops,
           high = f->flops;
    struct roof_axes a;

    for (size_t i = 0; i < f->n; i++) {
        least = fmin(least, f->row[i].intensity);
        most = fmax(most, f->row[i].intensity);
        low = fmin(low, fmin(f->row[i].flops, f->row[i].bound));
        high = fmax(high, f->row[i].flops);
    }
    a = (struct roof_axes){floor(log10(least) - 0.2), ceil(log10(most) + 0.2),
                           floor(log10(low) - 0.1), ceil(log10(high) + 0.1)};
    return a;
}

static void roof_grid(const struct roof_axes *a, FILE *file)
{
    for (double x = a->x0; x <= a->x1; x++) {
        double at = roof_x(a, pow(10, x));
        fprintf(file,
                "<line class=\"edge\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text "
                "class=\"soft\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                at, at, ROOF_TOP, ROOF_BOTTOM, at, ROOF_BOTTOM + 14, pow(10, x));
    }
    for (double y = a->y0; y <= a->y1; y++) {
        double at = roof_y(a, pow(10, y));
        fprintf(file,
                "<line class=\"edge\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text "
                "class=\"soft\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                ROOF_LEFT, ROOF_RIGHT, at, at, ROOF_LEFT - 6, at + 4, pow(10, y - 9));
    }
    fprintf(
        file,
        "<text class=\"soft\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations for each byte; "
        "upwards: GFLOP/s</text>\n",
        (ROOF_LEFT + ROOF_RIGHT) / 2, ROOF_HEIGHT - 4);
}

static void roof_draw(const struct roof *f, FILE *file)
{
    struct roof_axes a = roof_axes(f);
    double ridge = f->flops / f->bytes, left = fmax(pow(10, a.x0), pow(10, a.y0) / f->bytes);

    fprintf(file, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"roofline\">\n", ROOF_WIDTH,
            ROOF_HEIGHT);
    roof_grid(&a, file);
    fprintf(
        file,
        "<polyline fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" points=\"%.1f,%.1f "
        "%.1f,%.1f %d,%.1f\"/>\n",
        roof_x(&a, left), roof_y(&a, left * f->bytes), roof_x(&a, ridge), roof_y(&a, f->flops),
        ROOF_RIGHT, roof_y(&a, f->flops));
    for (size_t i = 0; i < f->n; i++) {
        double x = roof_x(&a, f->row[i].intensity), y = roof_y(&a, f->row[i].flops);
        fprintf(file, "<circle class=\"bar\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>", x, y);
        escape(file, f->row[i].name);
        fprintf(file, "</title></circle><text x=\"%.1f\" y=\"%.1f\">%zu</text>\n", x + 6, y + 12,
                i + 1);
    }
    fprintf(file, "</svg>\n");
}

static void roof_table(const struct roof *f, FILE *file)
{
    fprintf(file, "<div class=\"scroll\"><table><thead><tr><th>row</th><th>operations for each "
                  "byte</th><th>GFLOP/s</th><th>bound</th><th>of the bound</th><th>GB/s</th>"
                  "<th>bounded by</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < f->n; i++) {
        const struct roof_row *r = &f->row[i];
        fprintf(file, "<tr><th>%zu. ", i + 1);
        escape(file, r->name);
        fprintf(file,
                "</th><td>%.3g</td><td>%.4g</td><td>%.4g</td><td>%.0f %%</td><td>%.4g</td>"
                "<td>%s</td></tr>\n",
                r->intensity, r->flops / 1e9, r->bound / 1e9, 100 * r->flops / r->bound,
                r->bytes / 1e9, r->bound < f->flops ? "memory" : "arithmetic");
    }
    fprintf(file, "</tbody></table></div>\n");
}

void device_roof_html(const struct device_report *d, FILE *file)
{
    struct roof f;

    roof_init(&f, d->bench);
    fprintf(file, "<h2>Roofline</h2>\n");
    if (!(f.bytes > 0) || !f.n) {
        fprintf(file, "<p>A roofline needs the benchmark's copy within the device and a row of "
                      "arithmetic; they were not measured.</p>\n");
    } else {
        fprintf(
            file,
            "<p>Measured: %.4g GB/s, read and written by a copy within the device, and %.4g "
            "GFLOP/s, the fastest row.</p>\n<p class=\"soft\">The bytes of a row are those of its "
            "operands, each once. The line is the bound; a point far below it is a kernel that "
            "could be faster. More than 100 %%: the operands of the row fit into a cache.</p>\n",
            f.bytes / 1e9, f.flops / 1e9);
        roof_draw(&f, file);
        roof_table(&f, file);
    }
    free(f.row);
}
