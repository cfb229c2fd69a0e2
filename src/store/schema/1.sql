-- SPDX-License-Identifier: Apache-2.0
-- Rows are found by names that are random, so tables without a rowid: one tree and one page a
-- write instead of two. Texts that are JSON are opaque here; the manager reads and writes them.

PRAGMA application_id = 0x53474c53; -- "SGLS", for file(1)

CREATE TABLE sandboxes (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT, template TEXT, state TEXT, cause TEXT, spec TEXT,
    created_ms INTEGER, started_ms INTEGER, expires_ms INTEGER, updated_ms INTEGER
) STRICT, WITHOUT ROWID;

-- The sandbox comes first: its execs lie together, and go together.
CREATE TABLE execs (
    sandbox TEXT NOT NULL, id TEXT NOT NULL,
    spec TEXT, state TEXT, ending TEXT,
    code INTEGER, signal INTEGER, started_ms INTEGER, ended_ms INTEGER,
    out_bytes INTEGER, err_bytes INTEGER, cpu_ns INTEGER,
    PRIMARY KEY (sandbox, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE orgs (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT, quota TEXT, created_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT, name TEXT, hash TEXT, shown TEXT, scopes TEXT, templates TEXT,
    created_ms INTEGER, expires_ms INTEGER, revoked_ms INTEGER, rate_per_s INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER, org TEXT, sandbox TEXT, type TEXT, data TEXT
) STRICT;

CREATE TABLE usage (
    hour INTEGER NOT NULL, org TEXT NOT NULL, sandbox TEXT NOT NULL,
    wall_ms INTEGER NOT NULL, cpu_ns INTEGER NOT NULL, mem_mib_ms INTEGER NOT NULL,
    execs INTEGER NOT NULL, creates INTEGER NOT NULL,
    bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,
    PRIMARY KEY (hour, org, sandbox)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER, org TEXT, actor TEXT, action TEXT, sandbox TEXT, detail TEXT, request TEXT,
    prev TEXT, hash TEXT
) STRICT;

-- Nothing of ours ever changes a record. The chain of hashes finds who does it by other means.
CREATE TRIGGER audit_keeps_records BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'an audit record is never changed');
END;
CREATE TRIGGER audit_loses_no_records BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'an audit record is never removed');
END;
