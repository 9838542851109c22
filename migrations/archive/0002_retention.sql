ALTER TABLE `entries` ADD `removed` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `entries` ADD `changed` integer;--> statement-breakpoint
ALTER TABLE `entries` ADD `ask_again_at` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `entries_changed` ON `entries` (`removed`,`changed`);--> statement-breakpoint
CREATE INDEX `entries_asked` ON `entries` (`ask_again_at`) WHERE "entries"."ask_again_at" > 0;