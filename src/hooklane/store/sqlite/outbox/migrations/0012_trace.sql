-- The W3C trace context of the publish, where it was traced: attempts and handlers join its trace.
ALTER TABLE hooklane_event ADD COLUMN trace TEXT;
