DROP INDEX `inbox_pending`;--> statement-breakpoint
ALTER TABLE `inbox` ADD `group` text;--> statement-breakpoint
ALTER TABLE `inbox` ADD `head` integer DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE `inbox` ADD `agent` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `inbox` ADD `tool` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `inbox` ADD `risk` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `inbox_heads` ON `inbox` (`head`,`requested_at`,`id`,`agent`,`tool`,`risk`);--> statement-breakpoint
CREATE INDEX `inbox_group` ON `inbox` (`group`,`head`,`pending`,`requested_at`,`id`);--> statement-breakpoint
CREATE INDEX `inbox_requested` ON `inbox` (`requested_at`,`id`);--> statement-breakpoint
CREATE INDEX `inbox_pending` ON `inbox` (`pending`,`requested_at`,`id`,`agent`,`tool`,`risk`);