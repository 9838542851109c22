CREATE TABLE `standing` (
	`id` text PRIMARY KEY NOT NULL,
	`key` text NOT NULL,
	`by` text NOT NULL,
	`until` integer NOT NULL,
	`answer` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `standing_key` ON `standing` (`key`);--> statement-breakpoint
CREATE TABLE `standing_uses` (
	`standing` text NOT NULL,
	`run` text NOT NULL,
	PRIMARY KEY(`standing`, `run`)
);
