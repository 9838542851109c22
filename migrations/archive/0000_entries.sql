CREATE TABLE `parts` (
	`id` integer PRIMARY KEY NOT NULL,
	`run` text NOT NULL,
	`part` integer NOT NULL,
	`digest` text NOT NULL,
	`bytes` blob NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `parts_run` ON `parts` (`run`,`part`);