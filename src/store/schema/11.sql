-- SPDX-License-Identifier: Apache-2.0
-- The hosts that a secret may go to.
ALTER TABLE secrets ADD COLUMN binding TEXT;
