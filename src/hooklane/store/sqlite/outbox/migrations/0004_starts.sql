-- Attempts at the head that were announced and have come to nothing: any outcome wipes them out.
ALTER TABLE hooklane_lane ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hooklane_loose ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hooklane_redelivery ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;
