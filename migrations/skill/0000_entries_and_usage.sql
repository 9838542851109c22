CREATE TABLE `clearings` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`tenant` text NOT NULL,
	`skill` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL,
	`keys` integer NOT NULL,
	`bytes` integer NOT NULL,
	`journalled` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `entries` (
	`key` text PRIMARY KEY NOT NULL,
	`bytes` integer NOT NULL,
	`changed_at` integer NOT NULL,
	`value` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `usage` (
	`id` integer PRIMARY KEY NOT NULL,
	`keys` integer NOT NULL,
	`bytes` integer NOT NULL
);
