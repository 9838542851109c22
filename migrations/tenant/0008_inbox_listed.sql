DROP INDEX `inbox_pending`;--> statement-breakpoint
DROP INDEX `inbox_heads`;--> statement-breakpoint
DROP INDEX `inbox_requested`;--> statement-breakpoint
CREATE INDEX `inbox_listed` ON `inbox` (`pending`,`head`,`requested_at`,`id`,`agent`,`tool`,`risk`);