/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing a box is asked for and then looked for, with growing pauses and an end. */
#include <inttypes.h>

#include "launcher/launcher.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

static const uint64_t FREEZING_NS = 10000 * MS, FIRST_WAIT_NS = 1 * MS, LONGEST_WAIT_NS = 100 * MS;

void sg_box_freeze_answer(struct sg_box *b, const struct sg_err *err)
{
    b->is_freezing = false;
    sg_timer_stop(b->launcher->loop, &b->timer);
    if (b->snapshot.is_on)
        sg_box_snapshot_frozen(b, err);
    else if (err)
        sg_conn_fail(b->launcher, b->freeze_id, err);
    else
        sg_conn_ok(b->launcher, b->freeze_id);
}

/* What does not freeze is thawed: nothing stays half frozen. */
void sg_box_freeze_look(struct sg_box *b, uint64_t now_ns)
{
    if (sg_kept_is_frozen(&b->kept)) {
        sg_box_freeze_answer(b, NULL);
        return;
    }
    if (now_ns >= b->deadline_ns) {
        struct sg_err err = { 0 };
        (void)sg_kept_thaw(&b->kept, NULL);
        sg_fail(&err, SG_TIMEOUT, "the sandbox could not be frozen within %" PRIu64 " s",
                FREEZING_NS / (1000 * MS));
        sg_box_freeze_answer(b, &err);
        return;
    }
    /* The v1 freezer looks at each process once. One that is on its way into vfork() at that moment
     * then sleeps unfrozen until its child runs, which is frozen: it has to be asked again. */
    if (b->wait_ns > FIRST_WAIT_NS)
        (void)sg_kept_freeze(&b->kept, NULL);
    sg_timer_set(b->launcher->loop, &b->timer, now_ns + b->wait_ns);
    b->wait_ns = b->wait_ns < LONGEST_WAIT_NS ? b->wait_ns * 2 : b->wait_ns;
}

static void begin_freezing(struct sg_box *b)
{
    struct sg_err err = { 0 };
    if (sg_kept_freeze(&b->kept, &err) < 0) {
        sg_box_freeze_answer(b, &err);
        return;
    }
    const uint64_t now = sg_loop_now(b->launcher->loop);
    b->is_freezing = true;
    b->wait_ns = FIRST_WAIT_NS;
    b->deadline_ns = now + FREEZING_NS;
    sg_box_freeze_look(b, now);
}

void sg_box_freeze(struct sg_box *b, uint32_t id)
{
    struct sg_err err = { 0 };
    if (b->is_freezing || b->snapshot.is_on) {
        sg_fail(&err, SG_CONFLICT, "the sandbox is being frozen already");
        sg_conn_fail(b->launcher, id, &err);
        return;
    }
    b->freeze_id = id;
    begin_freezing(b);
}

void sg_box_freeze_for_snapshot(struct sg_box *b)
{
    begin_freezing(b);
}
