-- Attempts at the head that were announced and have come to nothing: any outcome wipes them out.
ALTER TABLE hooklane.lane ADD COLUMN starts integer NOT NULL DEFAULT 0;
ALTER TABLE hooklane.loose ADD COLUMN starts integer NOT NULL DEFAULT 0;
ALTER TABLE hooklane.redelivery ADD COLUMN starts integer NOT NULL DEFAULT 0;
