-- SPDX-License-Identifier: Apache-2.0
-- What was used, by tier and operation; what was allotted, whether used or not; the disk and the network.
ALTER TABLE usage ADD COLUMN tier TEXT NOT NULL DEFAULT 'cell';
ALTER TABLE usage ADD COLUMN operation TEXT NOT NULL DEFAULT '';
ALTER TABLE usage ADD COLUMN disk_mib_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN vcpu_milli_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN allotted_mib_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN net_in INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN net_out INTEGER NOT NULL DEFAULT 0;

-- How far the kernel's counters of a living sandbox are in the table above: written with it, in one transaction.
CREATE TABLE meters (
    sandbox TEXT NOT NULL PRIMARY KEY,
    cpu_ns INTEGER NOT NULL, at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meters SELECT id, ifnull((SELECT sum(cpu_ns) FROM usage WHERE usage.sandbox = sandboxes.id), 0),
    CAST(strftime('%s', 'now') AS INTEGER) * 1000 FROM sandboxes;
CREATE TRIGGER meters_end AFTER DELETE ON sandboxes BEGIN
    DELETE FROM meters WHERE sandbox = OLD.id;
END;

-- What an organisation may spend: JSON, NULL: no limit.
ALTER TABLE orgs ADD COLUMN budget TEXT;
