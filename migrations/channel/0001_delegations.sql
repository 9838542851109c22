CREATE TABLE `delegations` (
	`operator` text PRIMARY KEY NOT NULL,
	`to` text NOT NULL,
	`until_ms` integer NOT NULL,
	`put_at_ms` integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE `deliveries` ADD `instead_of` text;