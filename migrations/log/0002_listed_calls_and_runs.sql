CREATE TABLE `listed_calls` (
	`place` integer PRIMARY KEY NOT NULL,
	`call` text NOT NULL,
	`seq` integer NOT NULL,
	`agent` text NOT NULL,
	`tool` text NOT NULL,
	`state` text NOT NULL,
	`created_at` integer NOT NULL,
	`ended_at` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `listed_calls_call` ON `listed_calls` (`call`);--> statement-breakpoint
CREATE INDEX `listed_calls_agent` ON `listed_calls` (`agent`,`place`,`tool`,`state`);--> statement-breakpoint
CREATE INDEX `listed_calls_tool` ON `listed_calls` (`tool`,`place`,`agent`,`state`);--> statement-breakpoint
CREATE INDEX `listed_calls_state` ON `listed_calls` (`state`,`place`,`agent`,`tool`);--> statement-breakpoint
CREATE TABLE `listed_runs` (
	`place` integer PRIMARY KEY NOT NULL,
	`run` text NOT NULL,
	`agent` text NOT NULL,
	`session` text NOT NULL,
	`channel` text,
	`cancelled` integer NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `listed_runs_run` ON `listed_runs` (`run`);--> statement-breakpoint
CREATE INDEX `listed_runs_agent` ON `listed_runs` (`agent`,`place`);