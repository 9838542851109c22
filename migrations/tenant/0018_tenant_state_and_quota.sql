CREATE TABLE `calls_counted` (
	`id` integer PRIMARY KEY NOT NULL,
	`day` integer NOT NULL,
	`n` integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE `meta` ADD `state` text DEFAULT 'active' NOT NULL;--> statement-breakpoint
ALTER TABLE `meta` ADD `quota` text;--> statement-breakpoint
ALTER TABLE `meta` ADD `governed` integer DEFAULT 0 NOT NULL;