CREATE TABLE `former_worker_keys` (
	`kid` text PRIMARY KEY NOT NULL,
	`worker` text NOT NULL,
	`x` text NOT NULL,
	`from_at` integer NOT NULL,
	`until_at` integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE `workers` ADD `key_since` integer;--> statement-breakpoint
ALTER TABLE `workers` ADD `revoked_at` integer;--> statement-breakpoint
ALTER TABLE `workers` ADD `distrusted_from` integer;