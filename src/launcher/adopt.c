/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/adopt.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "image/store.h"
#include "launcher/launcher.h"
#include "base/banned.h"

struct tally {
    unsigned adopted, ended, leftovers;
};

static bool is_held(const struct sg_launcher *l, uint32_t slot)
{
    struct sg_ids ids;
    if (sg_ids_claim_slot(!l->set.is_rootless, slot, &ids, NULL) < 0)
        return true;
    sg_ids_release(&ids);
    return false;
}

/* A making one ends by itself, with its maker; its process has no ids of its own to be known by
 * yet. A parked one lost its control socket, and ends, too: we only see to it. */
static void judge(struct sg_launcher *l, uint32_t slot, struct tally *t)
{
    struct sg_record r = { 0 };
    struct sg_err err = { 0 };
    const int has_record = sg_record_read(l->cells_fd, slot, &r, &err);
    if (has_record < 0 && err.kind != SG_NOT_FOUND)
        sg_log(SG_LOG_ERROR, "a record cannot be read", SG_KV("error", err.msg));
    struct sg_box *b = NULL;
    if (has_record == 0 && r.state != SG_RECORD_MAKING && is_held(l, slot)) {
        b = sg_box_adopt(l, &r, &err);
        if (!b)
            sg_log(SG_LOG_WARN, "a sandbox's process is not where its record says",
                   SG_KV("sandbox", r.sandbox), SG_KV("error", err.msg));
    }
    if (!b) {
        r.slot = slot;
        (void)sg_box_of_leftover(l, &r);
        t->leftovers++;
    } else if (r.state == SG_RECORD_CLAIMED) {
        t->adopted++;
    } else {
        sg_box_end(b);
        t->ended++;
    }
}

static bool has_disk(const struct sg_launcher *l, const char *name)
{
    for (const struct sg_box *b = l->boxes; b; b = b->all_next)
        if (strcmp(b->record.disk, name) == 0)
            return true;
    return false;
}

/* A layer without a box: nobody was promised anything of it. */
static void remove_stray(void *arg, const char *name)
{
    struct sg_launcher *l = arg;
    if (!has_disk(l, name))
        (void)sg_vault_remove(&l->vault, SG_VAULT_CELL, name, NULL, NULL);
}

/* A pin is not sent to the disk by itself: a power cut may have taken it. */
static void pin_again(void *arg, const char *name)
{
    const struct sg_launcher *l = arg;
    char base[SG_TMPL_NAME_MAX + 1], dir[80];
    if (sg_vault_base_of(&l->vault, name, base, NULL) < 0 || strcmp(base, "host") == 0)
        return;
    sg_tmpl_unpin_end(l, base, name, false); /* it came, or did not go */
    sg_auto_fd store = sg_templates_open(l->set.state_dir, false, NULL);
    if (store < 0 || sg_templates_find_pin(store, base, name, dir, NULL) == 0)
        return;
    sg_auto_fd fd = sg_templates_use(store, base, NULL);
    if (fd < 0 || sg_templates_pin(fd, name, NULL) < 0)
        sg_log(SG_LOG_ERROR, "the template of a snapshot is gone", SG_KV("snapshot", name),
               SG_KV("template", base));
}

/* Of a sandbox that ended while nobody looked, or with the machine; of a snapshot that was on its
 * way: one that is there has another by now. */
static void unpin_gone(void *arg, int dir_fd, const char *id)
{
    const struct sg_launcher *l = arg;
    if (sg_starts_with(id, SG_TMPL_PIN_PASSING) ||
        (sg_id_is_valid(id, 's') && !sg_map_find(&l->by_id, id)))
        sg_templates_unpin(dir_fd, id);
}

void sg_adopt_pool(struct sg_launcher *l)
{
    if (!sg_vault_is_open(&l->vault))
        return;
    sg_vault_list(&l->vault, SG_VAULT_CELL, remove_stray, l);
    sg_vault_list(&l->vault, SG_VAULT_SNAP, pin_again, l);
    sg_auto_fd store = sg_templates_open(l->set.state_dir, false, NULL);
    if (store >= 0) /* whose they can be: one launcher at a time has the pool */
        sg_templates_each_pin(store, unpin_gone, l);
}

void sg_adopt_all(struct sg_launcher *l)
{
    struct tally t = { 0 };
    int fd = openat(l->cells_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return sg_close_p(&fd);
    for (struct dirent *d; (d = readdir(dir));) {
        int slot = sg_record_slot_of(d->d_name, ".rec");
        if (slot < 0) /* a socket whose record was never written, or is gone */
            slot = sg_record_slot_of(d->d_name, ".sock");
        if (slot >= 0 && !l->by_slot[slot])
            judge(l, (uint32_t)slot, &t);
    }
    if (t.adopted || t.ended || t.leftovers) {
        char adopted[16], ended[16], leftovers[16];
        (void)snprintf(adopted, sizeof adopted, "%u", t.adopted);
        (void)snprintf(ended, sizeof ended, "%u", t.ended);
        (void)snprintf(leftovers, sizeof leftovers, "%u", t.leftovers);
        sg_log(SG_LOG_INFO, "found what an earlier launcher left", SG_KV("adopted", adopted),
               SG_KV("ended", ended), SG_KV("leftovers", leftovers));
    }
}
