-- SPDX-License-Identifier: Apache-2.0
-- What lies above the network policies of sandboxes: "org:<id>" or "template:<name>", and JSON.
CREATE TABLE netpolicies (
    id TEXT NOT NULL PRIMARY KEY,
    policy TEXT NOT NULL
) STRICT, WITHOUT ROWID;
