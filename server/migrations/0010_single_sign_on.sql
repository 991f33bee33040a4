-- Whom an identity provider vouches for: its own name for a person, which stays when the address changes.
create table external_identities (
  issuer text not null,
  subject text not null,
  user_id uuid not null references users on delete cascade,
  created_at timestamptz not null default now(),
  last_login_at timestamptz not null default now(),
  primary key (issuer, subject)
);
create index external_identities_user on external_identities (user_id);
