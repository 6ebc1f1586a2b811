-- The provider's account has a word of its own: a tenant is whose data it is.
ALTER TABLE hooklane_inbox_row RENAME COLUMN tenant TO account;
ALTER TABLE hooklane_inbox_handling RENAME COLUMN tenant TO account;
ALTER TABLE hooklane_inbox_cursor RENAME COLUMN tenant TO account;
ALTER TABLE hooklane_inbox_digest RENAME COLUMN tenant TO account;
