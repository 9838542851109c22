CREATE TABLE `files_held` (
	`run` text PRIMARY KEY NOT NULL,
	`agent` text NOT NULL,
	`bytes` integer NOT NULL,
	`until` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `files_held_until` ON `files_held` (`until`);--> statement-breakpoint
CREATE TABLE `files_sums` (
	`agent` text PRIMARY KEY NOT NULL,
	`bytes` integer NOT NULL
);
