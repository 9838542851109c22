CREATE TABLE `attestations` (
	`n` integer PRIMARY KEY NOT NULL,
	`envelope` text NOT NULL,
	`grant` text
);
--> statement-breakpoint
CREATE TABLE `calls` (
	`n` integer PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`due_at` integer,
	`key` text,
	`record` text NOT NULL,
	`unmirrored` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `calls_due` ON `calls` (`due_at`) WHERE "calls"."due_at" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX `calls_key` ON `calls` (`key`) WHERE "calls"."key" is not null;--> statement-breakpoint
CREATE INDEX `calls_unmirrored` ON `calls` (`unmirrored`) WHERE "calls"."unmirrored" = 1;--> statement-breakpoint
CREATE TABLE `journal` (
	`seq` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`kind` text NOT NULL,
	`n` integer,
	`body` text NOT NULL,
	`hash` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `output` (
	`n` integer NOT NULL,
	`stream` text NOT NULL,
	`offset` integer NOT NULL,
	`bytes` blob NOT NULL,
	PRIMARY KEY(`n`, `stream`, `offset`)
);
--> statement-breakpoint
CREATE TABLE `run` (
	`id` integer PRIMARY KEY NOT NULL,
	`record` text NOT NULL,
	`cancelled` integer NOT NULL,
	`calls` integer NOT NULL,
	`allowed` integer NOT NULL,
	`denied` integer NOT NULL,
	`seq` integer NOT NULL,
	`head` text NOT NULL,
	`logged` integer NOT NULL
);
