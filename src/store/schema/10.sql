-- SPDX-License-Identifier: Apache-2.0
-- What somebody must agree to, and what became of it.
CREATE TABLE approvals (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT, state TEXT, operation TEXT, summary TEXT, subject TEXT, reason TEXT,
    asker TEXT, decider TEXT,
    created_ms INTEGER, expires_ms INTEGER, decided_ms INTEGER, used_ms INTEGER
) STRICT, WITHOUT ROWID;
