/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c: reads the settings of the stand-ins, and makes devices and faults from them. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct base base = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Sets the faults of a list call:n:code,call:n:+us. An entry that cannot be read is left out. */
static void faults_read(const char *text)
{
    char name[64];
    unsigned long at;
    int length;

    base.n_fault = 0;
    while (text && *text && base.n_fault < BASE_FAULTS) {
        struct base_fault *f = &base.fault[base.n_fault];
        if (sscanf(text, "%63[^:,]:%lu:%n", name, &at, &length) == 2) {
            *f = (struct base_fault){.at = at};
            snprintf(f->call, sizeof f->call, "%s", name);
            if (text[length] == '+') f->late = strtol(text + length + 1, NULL, 10);
            else f->code = (int)strtol(text + length, NULL, 10);
            base.n_fault++;
        }
        text = strchr(text, ',');
        if (text) text++;
    }
}

/* Sets one setting; value NULL: its default. Returns whether there is such a setting. */
static bool setting_apply(const char *name, const char *value)
{
    if (!strcmp(name, "DEVICES")) {
        base.devices = value ? atoi(value) : 1;
        if (base.devices > BASE_DEVICES) base.devices = BASE_DEVICES;
    } else if (!strcmp(name, "MEMORY")) {
        base.memory = value ? strtoull(value, NULL, 10) : (uint64_t)1 << 30;
    } else if (!strcmp(name, "DELAY")) {
        base.delay = value ? (unsigned)strtoul(value, NULL, 10) : 50;
    } else if (!strcmp(name, "SEED")) {
        base.seed = value ? (unsigned)strtoul(value, NULL, 10) : 1;
    } else if (!strcmp(name, "KEEP")) {
        base.keep = value ? strtoul(value, NULL, 10) : BASE_KEEP;
    } else if (!strcmp(name, "FAIL")) {
        faults_read(value);
    } else {
        return false;
    }
    return true;
}

static void condition_init(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&base.moved, &attributes);
    pthread_condattr_destroy(&attributes);
}

void base_settings_read(void)
{
    static const char *const names[] = {"DEVICES", "MEMORY", "DELAY", "SEED", "KEEP", "FAIL"};
    char variable[32];

    if (!base.read) condition_init();
    base.read = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(variable, sizeof variable, "BP_STANDIN_%s", names[i]);
        setting_apply(names[i], secure_getenv(variable));
    }
}

void base_vendor_open(struct base_vendor *vendor)
{
    bool first = !vendor->n_device;

    base_settings_read();
    vendor->n_device = base.devices;
    for (int i = 0; i < BASE_DEVICES; i++) {
        vendor->device[i].vendor = vendor;
        vendor->device[i].number = i;
        vendor->device[i].sticky = 0;
        vendor->device[i].total = base.memory;
        if (first) vendor->device[i].peers = 1u << i;
    }
}

int base_control(const char *name, const char *value)
{
    bool known;

    base_lock();
    if (!base.read) base_settings_read();
    known = setting_apply(name, value);
    base_unlock();
    return known ? 0 : -1;
}

const struct base_fault *base_fault_of(const char *call)
{
    const struct base_fault *found = NULL;

    for (int i = 0; i < base.n_fault; i++)
        if (!strcmp(base.fault[i].call, call) && ++base.fault[i].seen == base.fault[i].at)
            found = &base.fault[i];
    return found;
}

size_t base_misuses(void)
{
    size_t n;

    base_lock();
    n = base.misuses;
    base_unlock();
    return n;
}

size_t base_live(void)
{
    size_t n;

    base_lock();
    n = base_handles_live() + base_memory_live();
    base_unlock();
    return n;
}

void base_live_print(void)
{
    base_lock();
    base_handles_print();
    base_memory_print();
    base_unlock();
}
