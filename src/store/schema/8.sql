-- SPDX-License-Identifier: Apache-2.0
-- Templates that were built here, and their builds. `layer` of a snapshot is the key under which a build finds it again;
-- one with a key is no snapshot that anybody asked for. `traits` and both `detail` are JSON.

ALTER TABLE snapshots ADD COLUMN layer TEXT;
ALTER TABLE snapshots ADD COLUMN traits TEXT;
ALTER TABLE snapshots ADD COLUMN used_ms INTEGER;

CREATE TABLE templates (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT, name TEXT, detail TEXT, created_ms INTEGER, updated_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE builds (
    id TEXT NOT NULL PRIMARY KEY,
    template TEXT, state TEXT, detail TEXT, log TEXT, created_ms INTEGER, updated_ms INTEGER
) STRICT, WITHOUT ROWID;
