/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_manifest.c: parses arbitrary bytes as a manifest, which must be accepted completely or
 * refused with a message, without a leak. */
#include "fuzz.h"
#include "../../core/plugin/loader.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bp_manifest manifest;
    struct bp_refusal why = {0};

    if (bp_manifest_parse("/d/bp_fuzz.json", (const char *)data, size, &manifest, &why)) {
        if (why.text || !bp_name_is_valid(manifest.name) || !bp_name_is_valid(manifest.kind) ||
            !bp_version_is_valid(manifest.version))
            abort();
        if (manifest.library[0] != '/' || bp_path_has_parent(manifest.library) ||
            !bp_path_has_suffix(manifest.library, ".so"))
            abort();
        bp_manifest_finish(&manifest);
    } else if (!why.text || strncmp(why.text, "/d/bp_fuzz.json: ", 17) || manifest.name) abort();
    free(why.text);
    return 0;
}

const char *const bp_fuzz_seeds[] = {
    "{\"manifest\": 1, \"name\": \"a\", \"kind\": \"b\", \"library\": \"bp_c.so\", \"abi\": "
    "{\"major\": 0, \"minor\": 1}, "
    "\"version\": \"1\"}",
    "{\"manifest\": 1, \"name\": \"x_1\", \"kind\": \"x\", \"library\": \"/l/bp_x.so\", \"abi\": "
    "{\"major\": 0, \"minor\": 1}, "
    "\"version\": \"1.2.3-rc1\", \"priority\": -100, \"cpu_features\": [\"avx2\", \"fma\"], "
    "\"sha256\": "
    "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}",
    "{\"manifest\": 1, \"name\": \"\\u0061\\n\\ud83d\\ude00\", \"manifest\": 1}",
    "[[[[{\"a\": [true, false, null, 1e999, -0.5e-3]}]]]]",
    "\xef\xbb\xbf{}",
    "",
    NULL,
};
