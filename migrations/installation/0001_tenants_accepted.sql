ALTER TABLE `tenants` RENAME COLUMN "told" TO "accepted";--> statement-breakpoint
DROP INDEX `tenants_told`;--> statement-breakpoint
CREATE INDEX `tenants_accepted` ON `tenants` (`accepted`);