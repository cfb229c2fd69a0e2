-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE volumes (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT, name TEXT, token TEXT, state TEXT,
    bytes INTEGER, created_ms INTEGER
) STRICT, WITHOUT ROWID;
