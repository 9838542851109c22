ALTER TABLE `usage` ADD `reserved` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `usage` ADD `name` text DEFAULT '' NOT NULL;