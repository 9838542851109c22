ALTER TABLE `leaves` ADD `shadow_since` integer;--> statement-breakpoint
ALTER TABLE `leaves` ADD `shadow_from` text;--> statement-breakpoint
ALTER TABLE `leaves` ADD `shadow_to` text;--> statement-breakpoint
CREATE INDEX `leaves_shadow` ON `leaves` (`shadow_since`,`shadow_from`,`shadow_to`) WHERE "leaves"."shadow_since" is not null;