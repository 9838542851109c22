CREATE TABLE `publishers` (
	`name` text PRIMARY KEY NOT NULL,
	`keys` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `skill_changes` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`version` text NOT NULL,
	`from` text NOT NULL,
	`to` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL,
	`reason` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `skill_parts` (
	`sha256` text NOT NULL,
	`part` integer NOT NULL,
	`bytes` blob NOT NULL,
	PRIMARY KEY(`sha256`, `part`)
);
--> statement-breakpoint
CREATE TABLE `skills` (
	`id` text NOT NULL,
	`version` text NOT NULL,
	`publisher` text NOT NULL,
	`digest` text NOT NULL,
	`state` text NOT NULL,
	`about` text NOT NULL,
	PRIMARY KEY(`id`, `version`)
);
--> statement-breakpoint
CREATE INDEX `skills_state` ON `skills` (`state`);--> statement-breakpoint
CREATE INDEX `skills_digest` ON `skills` (`digest`);