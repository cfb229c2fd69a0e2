-- SPDX-License-Identifier: Apache-2.0
-- Contexts in which code runs. They go with their sandbox; that row is replaced, not removed, when
-- it changes, which fires no trigger.
CREATE TABLE contexts (
    sandbox TEXT NOT NULL, id TEXT NOT NULL,
    spec TEXT, created_ms INTEGER,
    PRIMARY KEY (sandbox, id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER contexts_go_with_their_sandbox AFTER DELETE ON sandboxes
BEGIN
    DELETE FROM contexts WHERE sandbox = OLD.id;
END;
