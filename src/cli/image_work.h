/* SPDX-License-Identifier: Apache-2.0 */
/* This program as `sandglass-image`: one piece of work on a template for the service.
 *
 * The daemon may be in somebody else's hands, so what it can have done here is little: templates
 * come and go without a name of their own (image/store.h), nobody else's is replaced or removed,
 * and whatever is hostile is read in a cell as by every import.
 *
 *     3  what is asked: one line of JSON, and then nothing; its end ends the work, and takes back
 *        what was held
 *     4  what is said: lines of JSON; the last one is {"error": ...} or that of the work
 *     5  the archive, in or out
 *
 *     {"action": "export", "template", "snapshot"}   {"bytes", "unpacked", "sudo"}, the archive,
 *                                                    {"done": true}
 *     {"action": "import", "bytes", "unpacked", "sudo"}
 *                                                    {"say"}..., {"template"}: held until the end
 */
#pragma once

int sg_image_work(void);
