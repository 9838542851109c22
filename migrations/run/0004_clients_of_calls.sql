ALTER TABLE `calls` ADD `join_key` text;--> statement-breakpoint
ALTER TABLE `calls` ADD `cancel_at` integer;--> statement-breakpoint
CREATE INDEX `calls_join` ON `calls` (`join_key`) WHERE "calls"."join_key" is not null;--> statement-breakpoint
CREATE INDEX `calls_cancel` ON `calls` (`cancel_at`) WHERE "calls"."cancel_at" is not null;