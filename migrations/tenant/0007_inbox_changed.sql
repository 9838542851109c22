ALTER TABLE `inbox` ADD `changed` integer;--> statement-breakpoint
CREATE INDEX `inbox_changed` ON `inbox` (`changed`);