CREATE TABLE `waiting` (
	`call` text PRIMARY KEY NOT NULL,
	`run` text NOT NULL,
	`until` integer NOT NULL,
	`next_at` integer NOT NULL,
	`rings` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `waiting_next` ON `waiting` (`next_at`);