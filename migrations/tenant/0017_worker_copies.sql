ALTER TABLE `workers` ADD `process` text;--> statement-breakpoint
ALTER TABLE `workers` ADD `doubled_at` integer;