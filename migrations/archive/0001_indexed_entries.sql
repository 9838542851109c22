CREATE TABLE `entries` (
	`id` integer PRIMARY KEY NOT NULL,
	`object` text NOT NULL,
	`weight` integer,
	`digest` text,
	`index` blob
);
--> statement-breakpoint
CREATE UNIQUE INDEX `entries_object` ON `entries` (`object`);--> statement-breakpoint
CREATE TABLE `entry_parts` (
	`id` integer PRIMARY KEY NOT NULL,
	`entry` integer NOT NULL,
	`digest` text NOT NULL,
	`bytes` blob NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `entry_parts_digest` ON `entry_parts` (`entry`,`digest`);--> statement-breakpoint
DROP TABLE `parts`;