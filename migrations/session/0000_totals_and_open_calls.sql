CREATE TABLE `open` (
	`place` text PRIMARY KEY NOT NULL,
	`run` text NOT NULL,
	`key` text NOT NULL,
	`tool` text NOT NULL,
	`spent` integer NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `open_call` ON `open` (`run`,`key`);--> statement-breakpoint
CREATE TABLE `totals` (
	`tool` text PRIMARY KEY NOT NULL,
	`calls` integer NOT NULL,
	`denied` integer NOT NULL,
	`time_ms` integer NOT NULL,
	`spent` integer NOT NULL
);
